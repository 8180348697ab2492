package cgroup

// none is the manager for hosts on which no group can be made.
type none struct{ reason string }

func (n none) Version() string       { return "none" }
func (n none) Controllers() []string { return []string{} }
func (n none) Usage(string) Usage    { return Usage{} }
func (n none) Kill(string)           {}
func (n none) Remove(string) error   { return nil }
func (n none) IDs() []string         { return nil }
func (n none) Close()                {}

func (n none) Create(id string, limits Limits) (*Group, error) {
	return &Group{Levels: n.Limit(id, limits)}, nil
}

func (n none) Limit(_ string, limits Limits) map[string]Level {
	levels := map[string]Level{}
	for name, asked := range map[string]bool{
		"memory": limits.MemoryBytes > 0, "swap": limits.MemoryBytes > 0, "cpus": limits.CPUs > 0, "pids": limits.Pids > 0,
	} {
		levels[name] = NotAsked
		if asked {
			levels[name] = None("no cgroups: %s", n.reason)
		}
	}
	return levels
}
