package files

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentpod/podimage/internal/actions"
)

const (
	fetchTime = 30 * time.Minute
	// maxFetched bounds one file; the disk of the sandbox bounds it as well.
	maxFetched = 16 << 30
)

// Fetch gets one file into the root, through the network that the sandbox has, and prints its digest.
func Fetch(ctx context.Context, root string, asked actions.HTTP, out io.Writer) error {
	if asked.Name != filepath.Base(asked.Name) || asked.Name == "." || asked.Name == ".." || asked.Name == "/" {
		return fmt.Errorf("%q is no name of a file", asked.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.URL, nil)
	if err != nil {
		return err
	}
	request.Header.Set("user-agent", "agentpod")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s: the server answered %s", asked.URL, response.Status)
	}
	path := filepath.Join(root, asked.Name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(asked.Mode)&0o777)
	if err != nil {
		return err
	}
	defer file.Close()
	sum, want, err := sumFor(asked.Checksum)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(response.Body, maxFetched+1))
	if err != nil {
		return err
	}
	if n > maxFetched {
		return fmt.Errorf("%s is larger than %d bytes", asked.URL, int64(maxFetched))
	}
	if found := fmt.Sprintf("%x", sum.Sum(nil)); want != "" && found != want {
		return fmt.Errorf("%s: its checksum is %s, but %s was asked for", asked.URL, found, want)
	}
	if err := os.Chmod(path, os.FileMode(asked.Mode)&0o777); err != nil {
		return err
	}
	at := time.Unix(0, 0)
	if changed, err := http.ParseTime(response.Header.Get("last-modified")); err == nil {
		at = changed
	}
	fmt.Fprintf(out, "%x\n", sum.Sum(nil))
	return os.Chtimes(path, at, at)
}

func sumFor(checksum string) (hash.Hash, string, error) {
	if checksum == "" {
		return sha256.New(), "", nil
	}
	algorithm, want, _ := strings.Cut(checksum, ":")
	switch algorithm {
	case "sha256":
		return sha256.New(), want, nil
	case "sha384":
		return sha512.New384(), want, nil
	case "sha512":
		return sha512.New(), want, nil
	}
	return nil, "", fmt.Errorf("checksums of the kind %q are not supported", algorithm)
}
