package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Prepared are the files of Anchors in a root in which nothing has run yet, complete but for the anchors.
// They are open, so that the anchors are added without looking for the files again, and without copying
// them.
type Prepared struct{ files []preparedFile }

type preparedFile struct {
	*os.File
	path string
	// isBundle: it has the marker at its end. Other files are empty.
	isBundle bool
}

// Prepare writes what can be written before the anchors are known.
func Prepare() *Prepared { return prepareBelow("/") }

func prepareBelow(root string) *Prepared {
	p := &Prepared{}
	first := writeBundles(root, []byte(marker), p.place)
	defer first.close()
	dir := filepath.Join(root, ownDir)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		report(err)
		return p
	}
	report(p.place(filepath.Join(dir, "ca.pem"), bundle{}, nil))
	report(p.place(filepath.Join(dir, "ca-bundle.pem"), first, []byte(marker)))
	if info, err := os.Stat(filepath.Join(root, localDir)); err == nil && info.IsDir() {
		report(p.place(filepath.Join(root, localDir, localName), bundle{}, nil))
	}
	return p
}

// place is place, and keeps the file open.
func (p *Prepared) place(path string, kept bundle, own []byte) error {
	file, err := write(path, kept, own)
	if err == nil {
		p.files = append(p.files, preparedFile{file, path, len(own) > 0})
	}
	return err
}

// Finish adds checked anchors.
func (p *Prepared) Finish(a Anchors) {
	ca := []byte(withNewline(a.CA))
	for _, file := range p.files {
		text := ca
		if file.isBundle {
			text = append([]byte(withNewline(a.Roots)), ca...)
		}
		_, err := file.Write(text)
		report(err)
		report(file.Close())
	}
	p.files = nil
}

// Undo is for a sandbox without anchors: it leaves only the bundles that the root had.
func (p *Prepared) Undo() {
	for _, file := range p.files {
		info, err := file.Stat()
		if err == nil && file.isBundle && info.Size() > int64(len(marker)) {
			err = file.Truncate(info.Size() - int64(len(marker)))
		} else if err == nil {
			err = os.Remove(file.path)
		}
		report(err)
		report(file.Close())
	}
	p.files = nil
}
