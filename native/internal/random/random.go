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

// UUID returns a random UUID.
func UUID() string {
	x := Hex(16)
	return x[:8] + "-" + x[8:12] + "-4" + x[13:16] + "-a" + x[17:20] + "-" + x[20:]
}
