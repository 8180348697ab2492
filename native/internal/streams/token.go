package streams

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	shortestToken = 32
	longestToken  = 256
	tokenBytes    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
)

// ReadToken reads a token and removes its file.
//
// SECURITY: no payload may have run before, and none can find the token afterwards: it is only in podd's
// memory.
func ReadToken(path string) (string, error) {
	token, err := readToken(path)
	if err != nil {
		return "", fmt.Errorf("the token in %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return "", fmt.Errorf("remove the token: %w", err)
	}
	return token, nil
}

func readToken(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("not a plain file")
	}
	text, err := io.ReadAll(io.LimitReader(file, longestToken+2))
	if err != nil {
		return "", err
	}
	token := strings.TrimSuffix(string(text), "\n")
	if len(token) < shortestToken || len(token) > longestToken || strings.Trim(token, tokenBytes) != "" {
		return "", fmt.Errorf("a token has %d to %d letters, digits, - or _", shortestToken, longestToken)
	}
	return token, nil
}
