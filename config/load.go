package config

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/config/limits"
)

// envPrefix begins the name of every environment variable that is a setting.
const envPrefix = "WARREN_"

// Sources is where settings come from, lowest precedence first: defaults, File, Environ, then Set and Flags together.
type Sources struct {
	// File is the path given with --config, empty for none.
	File string
	// Environ is the environment as os.Environ returns it; only WARREN_ variables are looked at. An empty value counts as not set.
	Environ []string
	// Set is the "key=value" of each --set, in order; the last of a key wins.
	Set []string
	// Flags are the values of the short flags that were given, by ShortFlag without dashes.
	Flags map[string]string
	// HostName is the host's name for defaults; empty asks the operating system.
	HostName string
}

// The ranks of sources, lowest precedence first.
const (
	rankDefault = iota
	rankFile
	rankEnviron
	rankFlags
)

// assignment is one key with one value from one source.
type assignment struct {
	name   string
	text   string
	source string
	rank   int
	// env is the variable's name when the source is the environment.
	env string
}

func (a *assignment) fail(p *problem) *Error {
	code := ExitConfig
	if a.rank == rankFlags {
		code = ExitUsage
	}
	return &Error{Code: code, Source: a.source, Key: a.name, Problem: p.what, Fix: p.fix}
}

// Load reads every source and returns the settings, or the first mistake as an *Error. It reads the configuration file and the secret file and
// touches nothing else.
func Load(src Sources) (*Config, error) {
	l := loader{config: &Config{}, effective: map[string]Setting{}}
	all, err := src.assignments()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := l.assign(&all[i]); err != nil {
			return nil, err
		}
	}
	if err := l.finish(src.HostName); err != nil {
		return nil, err
	}
	return l.config, nil
}

// assignments lists what all sources say, lowest precedence first.
func (src *Sources) assignments() ([]assignment, error) {
	var all []assignment
	for i := range table {
		if k := &table[i]; k.Default != "" {
			all = append(all, assignment{name: k.Name, text: k.Default, source: "default", rank: rankDefault})
		}
	}
	for _, read := range []func() ([]assignment, error){src.fromFile, src.fromEnviron, src.fromFlags} {
		more, err := read()
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

func (src *Sources) fromFile() ([]assignment, error) {
	if src.File == "" {
		return nil, nil
	}
	text, err := readSmall(src.File, limits.ConfigFileBytesMax)
	if err != nil {
		return nil, &Error{Code: ExitConfig, Source: "--config " + src.File, Problem: reason(err), Fix: "name a readable file"}
	}
	lines, err := ParseFile(text)
	if err != nil {
		var bad *SyntaxError
		errors.As(err, &bad)
		return nil, &Error{Code: ExitConfig, Source: place(src.File, bad.Number), Problem: bad.Problem, Fix: bad.Fix}
	}
	all := make([]assignment, len(lines))
	for i, line := range lines {
		all[i] = assignment{name: line.Key, text: line.Value, source: place(src.File, line.Number), rank: rankFile}
	}
	return all, nil
}

func place(file string, line int) string { return file + ":" + strconv.Itoa(line) }

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errors.New("the file is larger than " + formatBytes(limit, 10))
	}
	return string(text), err
}

// reason strips the path off an error of os: the Error's source has it.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return "cannot " + p.Op + " the file: " + p.Err.Error()
	}
	return err.Error()
}

func (src *Sources) fromFlags() ([]assignment, error) {
	var all []assignment
	set := map[string]bool{}
	for _, pair := range src.Set {
		name, text, found := strings.Cut(pair, "=")
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		if !found || text == "" {
			return nil, &Error{Code: ExitUsage, Source: "--set " + name, Problem: "there is no value", Fix: "write --set key=value"}
		}
		set[name] = true
		all = append(all, assignment{name: name, text: text, source: "--set", rank: rankFlags})
	}
	for i := range table {
		k := &table[i]
		text, given := src.Flags[k.ShortFlag]
		if k.ShortFlag == "" || !given {
			continue
		}
		a := assignment{name: k.Name, text: text, source: "--" + k.ShortFlag, rank: rankFlags}
		if text == "" {
			return nil, a.fail(problemf("give one, or leave the flag out", "the value is empty"))
		}
		if set[k.Name] {
			return nil, a.fail(problemf("keep one of them", "the flag and --set %s are both given", k.Name))
		}
		all = append(all, a)
	}
	return all, nil
}

// loader puts assignments into a Config, in order of precedence.
type loader struct {
	config    *Config
	effective map[string]Setting
	// listenersRank is the rank of the source that named the present listeners of a kind.
	listenersRank [2]int
	// secretFile is the file that holds the cluster secret, with where it was named.
	secretFile *assignment
}

// listenerKinds begin the names of listeners' keys.
var listenerKinds = [2]string{"listeners.tcp", "listeners.ssl"}

// listeners are the present ones of a kind.
func (c *Config) listeners(kind int) *[]string {
	return [...]*[]string{&c.AMQP.Listen, &c.AMQP.ListenTLS}[kind]
}

func (l *loader) assign(a *assignment) error {
	k, rest, known := find(a.name)
	if !known {
		return l.assignForeign(a)
	}
	v, p := k.parse(a.text)
	if p != nil {
		if k.Secret {
			p.what = "the value has a control character or is not UTF-8"
		}
		return a.fail(p)
	}
	l.replace(a)
	k.apply(l.config, rest, v)
	if k.PartOf == "" {
		l.effective[a.name] = Setting{Key: a.name, Value: k.display(v), Source: a.source}
		return nil
	}
	l.effective[k.PartOf] = Setting{Key: k.PartOf, Value: l.config.address(k.PartOf), Source: a.source}
	return nil
}

// address is the value of a key that others set parts of.
func (c *Config) address(key string) string {
	switch key {
	case "management.listen":
		return c.Management.Listen
	case "management.ssl.listen":
		return c.Management.ListenTLS
	case "prometheus.listen":
		return c.Metrics.Listen
	}
	return c.Metrics.ListenTLS
}

// replace takes back what this assignment replaces though it has another name.
func (l *loader) replace(a *assignment) {
	for kind, prefix := range listenerKinds {
		if a.name == prefix || strings.HasPrefix(a.name, prefix+".") {
			l.replaceListeners(a, kind)
		}
	}
	switch a.name {
	case "loopback_users":
		l.drop("loopback_users.")
	case "cluster.secret":
		l.secretFile = nil
		delete(l.effective, "cluster.secret_file")
	case "cluster.secret_file":
		l.secretFile, l.config.Cluster.Secret = a, ""
		delete(l.effective, "cluster.secret")
	}
}

// replaceListeners removes the listeners of a kind that earlier sources named, or the one of the same name, or all if there shall be none.
func (l *loader) replaceListeners(a *assignment, kind int) {
	prefix, list := listenerKinds[kind], l.config.listeners(kind)
	delete(l.effective, prefix) // none
	if a.rank > l.listenersRank[kind] || a.name == prefix {
		*list = nil
		l.drop(prefix + ".")
	} else if i := slices.Index(*list, l.effective[a.name].Value); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	l.listenersRank[kind] = a.rank
}

func (l *loader) drop(prefix string) {
	for name := range l.effective {
		if strings.HasPrefix(name, prefix) {
			delete(l.effective, name)
		}
	}
}

func (l *loader) assignForeign(a *assignment) error {
	f, known := findForeign(a.name)
	if !known {
		if a.env != "" {
			return &Error{Code: ExitConfig, Source: a.source, Problem: "no key has this variable", Fix: "did you mean " + nearestEnv(a.env) + "?"}
		}
		return a.fail(problemf("did you mean "+nearestKey(a.name)+"?", "unknown key"))
	}
	if p := f.judge(a.text); p != nil {
		return a.fail(p)
	}
	if f.only != "" {
		return nil // it says what holds anyway
	}
	l.config.Ignored = append(l.config.Ignored, Notice{Key: a.name, Source: a.source, Reason: f.reason})
	return nil
}

// restrict adds a user to the loopback users, or removes it.
func (c *Config) restrict(user string, on bool) {
	i, found := slices.BinarySearch(c.LoopbackUsers, user)
	switch {
	case on && !found:
		c.LoopbackUsers = slices.Insert(c.LoopbackUsers, i, user)
	case !on && found:
		c.LoopbackUsers = slices.Delete(c.LoopbackUsers, i, i+1)
	}
}

// settingsInOrder sorts the effective settings by key.
func settingsInOrder(m map[string]Setting) []Setting {
	all := make([]Setting, 0, len(m))
	for _, s := range m {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Setting) int { return cmp.Compare(a.Key, b.Key) })
	return all
}
