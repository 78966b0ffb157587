package config

import (
	"regexp"
	"slices"
	"strings"
)

// reservedEnv are WARREN_ variables that are no settings: the test suite's.
var reservedEnv = []string{"WARREN_BIN", "WARREN_E2E"}

// serviceLink matches what Kubernetes puts into the environment of every pod when a service is named "warren" or begins with "warren-".
var serviceLink = regexp.MustCompile(`^WARREN(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// fromEnviron lists the WARREN_ variables as assignments, sorted by variable so that the first error does not depend on the environment's order.
func (src *Sources) fromEnviron() ([]assignment, error) {
	var all []assignment
	for _, pair := range src.Environ {
		env, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(env, envPrefix) || text == "" || !isSetting(env, text) {
			continue
		}
		all = append(all, assignment{name: keyOfEnv(env), text: text, source: "environment " + env, rank: rankEnviron, env: env})
	}
	slices.SortStableFunc(all, func(a, b assignment) int { return strings.Compare(a.env, b.env) })
	return all, nil
}

// isSetting says whether a WARREN_ variable is meant for the configuration.
func isSetting(env, text string) bool {
	link := serviceLink.MatchString(env) || strings.HasSuffix(env, "_PORT") && strings.Contains(text, "://")
	return !link && !slices.Contains(reservedEnv, env)
}

// keyOfEnv returns the key that a variable sets. A variable that sets none is returned as it is: no key has such a name.
func keyOfEnv(env string) string {
	for i := range table {
		if k := &table[i]; k.EnvName() == env {
			return k.Name
		}
	}
	for i := range table {
		prefix, isFamily := table[i].family()
		if !isFamily {
			continue
		}
		if rest, ok := strings.CutPrefix(env, envPrefix+strings.ToUpper(strings.ReplaceAll(prefix, ".", "_"))); ok && rest != "" {
			return prefix + strings.ToLower(rest)
		}
	}
	return env
}
