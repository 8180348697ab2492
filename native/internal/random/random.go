// Package random makes unpredictable names.
package random

import (
	"crypto/rand"
	"encoding/hex"
)

// Hex returns n random bytes in hexadecimal.
func Hex(n int) string {
	data := make([]byte, n)
	if _, err := rand.Read(data); err != nil {
		panic(err)
	}
	return hex.EncodeToString(data)
}
