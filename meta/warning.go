package meta

// Warnings says what in the declaration of a queue has no effect, for operators: arguments of old versions that are accepted so that old clients go on. It is nil for most queues.
func (q *Queue) Warnings() (list []string) {
	if q.Arguments.Empty() {
		return nil
	}
	for i := range argTable {
		a := &argTable[i]
		if !a.Ignored || a.Scope&QueueScope == 0 {
			continue
		}
		if _, ok := q.Arguments.Get(a.Name); ok {
			list = append(list, "argument "+a.Name+" is accepted and has no effect")
		}
	}
	return list
}
