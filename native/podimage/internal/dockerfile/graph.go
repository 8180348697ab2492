// Package dockerfile turns a Dockerfile into the graph of what has to be done, by BuildKit's own front
// end. The server executes the graph.
package dockerfile

import "agentpod/podimage/internal/actions"

// A Request is what the server asks `dockerfile` for.
type Request struct {
	// Name is how errors name the file.
	Name      string            `json:"name"`
	Content   []byte            `json:"content"`
	Target    string            `json:"target,omitempty"`
	Args      map[string]string `json:"args,omitempty"`
	Platform  string            `json:"platform"`
	Images    []KnownImage      `json:"images,omitempty"`
	NoNetwork bool              `json:"noNetwork,omitempty"`
}

// A KnownImage is an image whose configuration the server has already.
type KnownImage struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Config []byte `json:"config"`
}

// An Answer has either the references of images whose configurations are needed, or the graph.
type Answer struct {
	Needs []string `json:"needs,omitempty"`
	Graph *Graph   `json:"graph,omitempty"`
}

// A Graph is what has to be done. A vertex comes after those that it needs.
type Graph struct {
	Vertices []Vertex `json:"vertices"`
	// Result is the number of the last vertex; -1 is the empty file system.
	Result int `json:"result"`
	// Config is the image's configuration, in the form of the OCI and Docker.
	Config   []byte    `json:"config"`
	Warnings []Warning `json:"warnings"`
}

// A Warning is one of the linter's.
type Warning struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
	URL  string `json:"url,omitempty"`
	Line int    `json:"line"`
}

// A Vertex is one thing to do. Exactly one of the pointers is set.
type Vertex struct {
	// Title is the instruction as people know it: [build 2/3] RUN make.
	Title string `json:"title"`
	// Line is that of the Dockerfile, from 1; 0 if there is none.
	Line int `json:"line"`
	// NoCache: the result of an earlier build is not used.
	NoCache bool          `json:"noCache,omitempty"`
	Image   *Image        `json:"image,omitempty"`
	Local   *Local        `json:"local,omitempty"`
	HTTP    *actions.HTTP `json:"http,omitempty"`
	Git     *actions.Git  `json:"git,omitempty"`
	Exec    *Exec         `json:"exec,omitempty"`
	File    *File         `json:"file,omitempty"`
}

type Image struct {
	Ref string `json:"ref"`
}

// Local is the build context.
type Local struct {
	Name string `json:"name"`
}

// Exec runs a command on a root.
type Exec struct {
	// Root is the number of a vertex; -1 is the empty file system.
	Root    int         `json:"root"`
	Args    []string    `json:"args"`
	Env     []string    `json:"env,omitempty"`
	Cwd     string      `json:"cwd"`
	User    string      `json:"user,omitempty"`
	Network string      `json:"network,omitempty"`
	Mounts  []Mount     `json:"mounts,omitempty"`
	Secrets []SecretEnv `json:"secrets,omitempty"`
}

// A Mount is one of --mount.
type Mount struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	// From is the number of a vertex; -1 is nothing.
	From     int    `json:"from"`
	Selector string `json:"selector,omitempty"`
	Readonly bool   `json:"readonly,omitempty"`
	ID       string `json:"id,omitempty"`
	Sharing  string `json:"sharing,omitempty"`
	UID      uint32 `json:"uid,omitempty"`
	GID      uint32 `json:"gid,omitempty"`
	Mode     uint32 `json:"mode,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

// A SecretEnv is a secret in a variable.
type SecretEnv struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Optional bool   `json:"optional,omitempty"`
}

// A File changes files of a root, one action after the other.
type File struct {
	Root    int              `json:"root"`
	Actions []actions.Action `json:"actions"`
}
