// Package actions is what podfiles does in a sandbox, as podimage writes it into a graph.
package actions

// HTTP is one file from a server.
type HTTP struct {
	URL      string `json:"url"`
	Name     string `json:"name"`
	Checksum string `json:"checksum,omitempty"`
	Mode     int    `json:"mode"`
}

// Git is a commit of a repository.
type Git struct {
	Remote     string `json:"remote"`
	Ref        string `json:"ref,omitempty"`
	Subdir     string `json:"subdir,omitempty"`
	Checksum   string `json:"checksum,omitempty"`
	KeepGitDir bool   `json:"keepGitDir,omitempty"`
	Submodules bool   `json:"submodules,omitempty"`
}

// An Action is what cmd/podfiles performs. Exactly one of the pointers is set.
type Action struct {
	Copy    *Copy    `json:"copy,omitempty"`
	Mkdir   *Mkdir   `json:"mkdir,omitempty"`
	Mkfile  *Mkfile  `json:"mkfile,omitempty"`
	Rm      *Rm      `json:"rm,omitempty"`
	Symlink *Symlink `json:"symlink,omitempty"`
}

type Owner struct {
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
}

type Copy struct {
	From           int      `json:"from"`
	Src            string   `json:"src"`
	Dest           string   `json:"dest"`
	Owner          *Owner   `json:"owner,omitempty"`
	Mode           int32    `json:"mode"`
	ModeText       string   `json:"modeText,omitempty"`
	FollowSymlink  bool     `json:"followSymlink,omitempty"`
	DirContents    bool     `json:"dirContents,omitempty"`
	Unpack         bool     `json:"unpack,omitempty"`
	CreateDestPath bool     `json:"createDestPath,omitempty"`
	Wildcard       bool     `json:"wildcard,omitempty"`
	EmptyWildcard  bool     `json:"emptyWildcard,omitempty"`
	Replace        bool     `json:"replace,omitempty"`
	Timestamp      int64    `json:"timestamp"`
	Include        []string `json:"include,omitempty"`
	Exclude        []string `json:"exclude,omitempty"`
	Required       []string `json:"required,omitempty"`
}

type Mkdir struct {
	Path      string `json:"path"`
	Mode      int32  `json:"mode"`
	Parents   bool   `json:"parents,omitempty"`
	Owner     *Owner `json:"owner,omitempty"`
	Timestamp int64  `json:"timestamp"`
}

type Mkfile struct {
	Path      string `json:"path"`
	Mode      int32  `json:"mode"`
	Data      []byte `json:"data"`
	Owner     *Owner `json:"owner,omitempty"`
	Timestamp int64  `json:"timestamp"`
}

type Rm struct {
	Path          string `json:"path"`
	AllowNotFound bool   `json:"allowNotFound,omitempty"`
	Wildcard      bool   `json:"wildcard,omitempty"`
}

type Symlink struct {
	Target    string `json:"target"`
	Path      string `json:"path"`
	Owner     *Owner `json:"owner,omitempty"`
	Timestamp int64  `json:"timestamp"`
}
