package dockerfile

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"

	"agentpod/podimage/internal/job"

	"github.com/moby/patternmatcher"
)

// A ContextRequest asks for the digests of what copies read of the build context, a tar file on descriptor 3.
type ContextRequest struct {
	Copies []Selection `json:"copies"`
}

// A Selection is what one copy, or one mount, reads.
type Selection struct {
	Src      string   `json:"src"`
	Wildcard bool     `json:"wildcard,omitempty"`
	Include  []string `json:"include,omitempty"`
	Exclude  []string `json:"exclude,omitempty"`
}

// Selected is the digest of all files of a selection, and the digests of the single ones.
type Selected struct {
	Digest string            `json:"digest"`
	Files  map[string]string `json:"files"`
}

const (
	maxContextFiles = 200_000
	// maxNamed bounds the files whose digests are named; they only explain a change.
	maxNamed = 2000
)

type contextFile struct {
	path, digest string
	isLink       bool
}

// ReadContext answers a ContextRequest. The digests are made here, from the bytes that arrived, because the
// cache is shared: a client's own digests could give its files another client's name.
func ReadContext(asked ContextRequest) (any, error) {
	file := os.NewFile(3, "context")
	if file == nil {
		return nil, job.Errorf(job.InvalidArgument, "job.files", "there is no context")
	}
	defer file.Close()
	files, err := readContext(file)
	if err != nil {
		return nil, err
	}
	selected := []Selected{}
	for _, one := range asked.Copies {
		found, err := choose(files, one)
		if err != nil {
			return nil, err
		}
		selected = append(selected, found)
	}
	return map[string]any{"copies": selected}, nil
}

func readContext(source io.Reader) ([]contextFile, error) {
	reader := tar.NewReader(source)
	var files []contextFile
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, job.Errorf(job.InvalidArgument, "context.malformed", "the build context is no tar file: %v", err)
		}
		if len(files) == maxContextFiles {
			return nil, job.Errorf(job.ResourceExhausted, "context.files", "the build context has more than %d files", maxContextFiles).
				WithHint("list what the build does not need in .dockerignore")
		}
		sum := sha256.New()
		// Times are no part of it, as in BuildKit.
		fmt.Fprintf(sum, "%c %o %s\n", header.Typeflag, header.Mode&0o7777, header.Linkname)
		if _, err := io.Copy(sum, reader); err != nil {
			return nil, job.Errorf(job.InvalidArgument, "context.malformed", "the build context is no tar file: %v", err)
		}
		name := strings.TrimPrefix(path.Join("/", header.Name), "/")
		if name == "" {
			continue
		}
		files = append(files, contextFile{name, fmt.Sprintf("%x", sum.Sum(nil)), header.Typeflag == tar.TypeSymlink})
	}
	sort.SliceStable(files, func(i, j int) bool { return files[i].path < files[j].path })
	return files, nil
}

// choose may choose more than a copy reads, never less: too much only means that something is built again.
func choose(files []contextFile, one Selection) (Selected, error) {
	pattern := strings.TrimPrefix(path.Join("/", one.Src), "/")
	if throughLink(files, pattern, one.Wildcard) {
		// A link may lead anywhere in the context.
		pattern, one.Exclude, one.Include = "", nil, nil
	}
	excluded, err := matcher(one.Exclude)
	if err != nil {
		return Selected{}, err
	}
	included, err := matcher(one.Include)
	if err != nil {
		return Selected{}, err
	}
	found := Selected{Files: map[string]string{}}
	sum := sha256.New()
	for _, file := range files {
		rest, isInside := within(pattern, file.path, one.Wildcard)
		if !isInside {
			continue
		}
		if excluded != nil && rest != "" {
			if isMatch, err := excluded.MatchesOrParentMatches(rest); err == nil && isMatch {
				continue
			}
		}
		if included != nil && rest != "" {
			if isMatch, err := included.MatchesOrParentMatches(rest); err == nil && !isMatch && !mayLead(one.Include, rest) {
				continue
			}
		}
		fmt.Fprintf(sum, "%q %s\n", file.path, file.digest)
		if len(found.Files) < maxNamed {
			found.Files[file.path] = file.digest
		}
	}
	found.Digest = fmt.Sprintf("%x", sum.Sum(nil))
	return found, nil
}

func matcher(patterns []string) (*patternmatcher.PatternMatcher, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	found, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, job.Errorf(job.InvalidArgument, "dockerfile.pattern", "a pattern of a COPY is malformed: %v", err)
	}
	return found, nil
}

// mayLead reports whether a file may be a link or a directory on the way to what a pattern matches.
func mayLead(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if strings.HasPrefix(strings.TrimPrefix(pattern, "/")+"/", name+"/") || strings.ContainsAny(pattern, "*?[!") {
			return true
		}
	}
	return false
}

// within reports whether a path is the pattern's file or below it, and what is below.
func within(pattern, name string, isWildcard bool) (string, bool) {
	if pattern == "" {
		return name, true
	}
	wanted, parts := strings.Split(pattern, "/"), strings.Split(name, "/")
	if len(parts) < len(wanted) {
		return "", false
	}
	for i, one := range wanted {
		isMatch := one == parts[i]
		if isWildcard && !isMatch {
			isMatch, _ = path.Match(one, parts[i])
		}
		if !isMatch {
			return "", false
		}
	}
	return strings.Join(parts[len(wanted):], "/"), true
}

// throughLink reports whether a link is on the way to the pattern, or is what it names.
func throughLink(files []contextFile, pattern string, isWildcard bool) bool {
	for _, file := range files {
		if !file.isLink {
			continue
		}
		parts, wanted := strings.Split(file.path, "/"), strings.Split(pattern, "/")
		if pattern == "" || len(parts) > len(wanted) {
			continue
		}
		if _, isOnWay := within(strings.Join(wanted[:len(parts)], "/"), file.path, isWildcard); isOnWay {
			return true
		}
	}
	return false
}
