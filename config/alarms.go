package config

import (
	"errors"
	"strings"
)

// AlarmKeys are the keys that Alarms.Set takes.
func AlarmKeys() []string {
	var names []string
	for i := range table {
		if table[i].isAlarm() {
			names = append(names, table[i].Name)
		}
	}
	return names
}

func (k *Key) isAlarm() bool {
	return k.Reloadable && (strings.HasPrefix(k.Name, "vm_memory_high_watermark.") || strings.HasPrefix(k.Name, "disk_free_limit."))
}

// Set reads the value of one of AlarmKeys as a configuration file has it.
func (a *Alarms) Set(name, text string) error {
	k, _, ok := find(name)
	if !ok || !k.isAlarm() {
		return errors.New(name + " is not a limit that can be set")
	}
	v, p := k.parse(text)
	if p != nil {
		return errors.New(name + ": " + p.what + "; " + p.fix)
	}
	c := Config{Alarms: *a}
	k.apply(&c, "", v)
	*a = c.Alarms
	return nil
}
