package tidy

// Rule is one rule of the repository.
type Rule struct {
	// Name is the rule's name: that of its subtest and of its planted cases.
	Name string
	// Why says what goes wrong without the rule; it is printed with the findings.
	Why string
	// Check returns the places that break the rule.
	Check func(*Tree) []Finding
}

// Rules lists every rule.
var Rules = []Rule{
	{"parses", "a file that does not parse escapes every other rule", func(t *Tree) []Finding { return t.broken }},
	{"lattice", "imports that point up or sideways turn the layers into one ball; see internal/tidy/lattice.txt", checkLattice},
	{"purity", "a machine that reads the clock, the network, a lock or a map's order differs between replicas", checkPurity},
	{"length", "what does not fit a screen is not read", checkLength},
	{"package-doc", "a reader must learn a package's role and its neighbours from one comment", checkPackageDoc},
	{"exported-doc", "an exported name without a sentence makes every caller read the code", checkExportedDoc},
	{"names", "such a name says nothing about what the thing is", checkNames},
	{"enums", "a persisted value that depends on its place in a list changes when a line is inserted", checkEnums},
	{"sleep", "a test that sleeps is slow when it passes and wrong when the machine is busy", checkSleep},
	{"limits", "a limit that nothing reads does not limit", checkLimits},
	{"unfinished", "a mark of unfinished work without an issue's number is forgotten", checkUnfinished},
	{"places", "the repository must build everywhere, so it names no directory and no package mirror of one machine", checkPlaces},
	{"size", "a large file stays in every clone for ever", checkSize},
	{"adr", "a decision without its state misleads", checkADR},
	{"modules", "some modules compile only in the versions that belong together", checkModules},
}
