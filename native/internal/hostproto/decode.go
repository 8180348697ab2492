package hostproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object is one parsed JSON object. encoding/json alone accepts repeated keys and ignores their case, so a
// client and podhost could read the same line differently.
type object struct {
	path   string
	fields map[string]json.RawMessage
	err    *Error
}

const maxDepth = 8

// parseObject reads raw as an object that has every required key, and no keys but those and the optional
// ones.
func parseObject(path string, raw []byte, required, optional []string) *object {
	o := &object{path: path, fields: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		o.fail("", "is not an object")
		return o
	}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			o.fail("", "is not well-formed")
			return o
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			o.fail(key, "is not well-formed")
			return o
		}
		if _, twice := o.fields[key]; twice {
			o.fail(key, "appears twice")
			return o
		}
		if !contains(required, key) && !contains(optional, key) {
			known := append(append([]string{}, required...), optional...)
			sort.Strings(known)
			o.fail(key, "is not a known key (known: "+strings.Join(known, ", ")+")")
			return o
		}
		o.fields[key] = value
	}
	if token, err := dec.Token(); err != nil || token != json.Delim('}') {
		o.fail("", "is not well-formed")
		return o
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		o.fail("", "has extra data after it")
		return o
	}
	for _, key := range required {
		if _, there := o.fields[key]; !there {
			o.fail(key, "is missing")
			return o
		}
	}
	return o
}

// fail keeps the first error. Later reads of a failed object return zero values.
func (o *object) fail(key, complaint string) {
	if o.err != nil {
		return
	}
	name := o.path
	if key != "" {
		name = o.path + "." + strconv.Quote(clip(key, 64))
	}
	o.err = Errorf(InvalidArgument, "request.invalid", "%s %s", name, complaint)
}

func (o *object) text(key string, grammar *regexp.Regexp) string {
	raw, there := o.fields[key]
	if o.err != nil || !there {
		return ""
	}
	var value string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
		o.fail(key, "is not a string")
		return ""
	}
	if !grammar.MatchString(value) {
		o.fail(key, "does not match "+grammar.String())
		return ""
	}
	return value
}

// maxSafeInteger bounds every number: above it the client, which is JavaScript, loses precision.
const maxSafeInteger = 1<<53 - 1

func (o *object) integer(key string, max int64) int64 {
	raw, there := o.fields[key]
	if o.err != nil || !there {
		return 0
	}
	value, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || value < 0 || value > max {
		o.fail(key, "is not a whole number from 0 to "+strconv.FormatInt(max, 10))
		return 0
	}
	return value
}

func (o *object) number(key string, max float64) float64 {
	raw, there := o.fields[key]
	if o.err != nil || !there {
		return 0
	}
	value, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(value) || value < 0 || value > max {
		o.fail(key, "is not a number from 0 to "+strconv.FormatFloat(max, 'f', -1, 64))
		return 0
	}
	return value
}

func (o *object) texts(key string, grammar *regexp.Regexp, max int) []string {
	raw, there := o.fields[key]
	if o.err != nil || !there {
		return nil
	}
	var items []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &items) != nil || len(items) == 0 || len(items) > max {
		o.fail(key, "is not a list of 1 to "+strconv.Itoa(max)+" entries")
		return nil
	}
	values := make([]string, 0, len(items))
	for _, item := range items {
		entry := &object{path: o.path + "." + key, fields: map[string]json.RawMessage{"entry": item}}
		values = append(values, entry.text("entry", grammar))
		if entry.err != nil {
			o.err = entry.err
			return nil
		}
	}
	return values
}

// tooDeep only counts brackets, before a recursive parser sees the text.
func tooDeep(line []byte) bool {
	depth, inText := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max] + "..."
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}
