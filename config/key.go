package config

import (
	"strings"
	"time"
)

// Type is how the text of a value is read.
type Type uint8

// The types of values. They are not persisted.
const (
	// String takes any text.
	String Type = 1
	// Bool takes true, false, on or off.
	Bool Type = 2
	// Int takes a decimal integer.
	Int Type = 3
	// Bytes takes a size: an integer of bytes, or one with a unit (k, KiB, M, MiB, G, GiB of 1024; kB, MB, GB of 1000).
	Bytes Type = 4
	// Duration takes an integer in the key's own unit, or numbers with units (ms, s, m, h, d) as in 1m30s.
	Duration Type = 5
	// Address takes HOST:PORT, [IPv6]:PORT, :PORT or PORT; without a host it means every address, IPv4 and IPv6.
	Address Type = 6
	// AddressList takes addresses with a host, separated by commas.
	AddressList Type = 7
	// Enum takes one of the key's Choices.
	Enum Type = 8
	// Host takes a host name or an address, without a port.
	Host Type = 9
	// Path takes a path of letters, digits and -._~ between slashes; a slash in front is added, one at the end dropped.
	Path Type = 10
	// Fraction takes a decimal number that is not negative, as 0.6.
	Fraction Type = 11
	// Count takes a decimal integer, or infinity, which is read as 0.
	Count Type = 12
)

// String returns the type's name as the documentation prints it.
func (t Type) String() string {
	switch t {
	case String:
		return "string"
	case Bool:
		return "boolean"
	case Int:
		return "integer"
	case Bytes:
		return "bytes"
	case Duration:
		return "duration"
	case Address:
		return "address"
	case AddressList:
		return "addresses"
	case Enum:
		return "choice"
	case Host:
		return "host"
	case Path:
		return "path"
	case Fraction:
		return "fraction"
	case Count:
		return "integer or infinity"
	}
	return "unknown"
}

// Key is one row of the table: a setting with its name, how it is read, and what it does.
type Key struct {
	// Name is the key as the file and --set write it. A last part of "$name" makes it a family: any name may stand there.
	Name string
	// Type says how a value is read.
	Type Type
	// Default is the value, in the file's syntax, that holds when no source names the key.
	Default string
	// Doc says what the key does, in whole sentences.
	Doc string
	// Reloadable says that a running broker can take a new value.
	Reloadable bool
	// ShortFlag is the key's own flag without the dashes, empty if it has none.
	ShortFlag string
	// Secret keeps the value out of Effective and of errors.
	Secret bool
	// Unit is what a plain number means for a Duration.
	Unit time.Duration
	// Min and Max bound Int, Bytes (in bytes) and Duration (in milliseconds), both inclusive. Both zero: no bound.
	Min, Max int64
	// Choices are the values of an Enum.
	Choices []string
	// PartOf names the address key of which this key sets the host or the port; such a key has no default of its own.
	PartOf string
	// check looks at a String more closely; nil takes every one.
	check func(text string) *problem
	// apply puts a value that was read into the Config under construction. rest is what stands in the place of $name.
	apply func(c *Config, rest string, v value)
}

// family says whether the key stands for many names, and returns what they begin with.
func (k *Key) family() (prefix string, ok bool) {
	return strings.CutSuffix(k.Name, "$name")
}

// EnvName returns the environment variable that sets the key: WARREN_ and the name in upper case with "_" for ".".
func (k *Key) EnvName() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Keys returns the table of keys in the order of the documentation. The caller may change the copy.
func Keys() []Key { return append([]Key(nil), table...) }

// find returns the row for a name and what stands in the place of $name.
func find(name string) (k *Key, rest string, ok bool) {
	for i := range table {
		k := &table[i]
		if k.Name == name {
			return k, "", !strings.HasSuffix(k.Name, "$name")
		}
	}
	for i := range table {
		k := &table[i]
		if prefix, isFamily := k.family(); isFamily && strings.HasPrefix(name, prefix) && len(name) > len(prefix) {
			return k, name[len(prefix):], true
		}
	}
	return nil, "", false
}
