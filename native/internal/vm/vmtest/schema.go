// Package vmtest plays programs that run virtual machines, for tests of their drivers. A fake checks every
// request against a schema that is written by hand from the program's published description, and keeps state.
package vmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A Schema says what a JSON value may be.
type Schema struct {
	// Kind is "object", "array", "string", "integer" or "boolean".
	Kind string
	// Fields are those of an object, and Required the names of those that must be there. Others are refused.
	Fields   map[string]Schema
	Required []string
	Items    *Schema
	// Enum are the strings that are allowed; nil for any.
	Enum []string
	// Least and Most bound an integer, if Most is not 0.
	Least, Most int64
}

// Short names for schemas.
var (
	String  = Schema{Kind: "string"}
	Integer = Schema{Kind: "integer"}
	Boolean = Schema{Kind: "boolean"}
)

// Object is a schema of an object.
func Object(required string, fields map[string]Schema) Schema {
	return Schema{Kind: "object", Fields: fields, Required: strings.Fields(required)}
}

// Array is a schema of an array.
func Array(items Schema) Schema { return Schema{Kind: "array", Items: &items} }

// Enum is a schema of a string with few values.
func Enum(values ...string) Schema { return Schema{Kind: "string", Enum: values} }

// Between is a schema of an integer.
func Between(least, most int64) Schema { return Schema{Kind: "integer", Least: least, Most: most} }

// Check parses one JSON value and compares it with a schema.
func (s Schema) Check(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	return value, s.check("body", value)
}

func (s Schema) check(at string, value any) error {
	switch found := value.(type) {
	case map[string]any:
		if s.Kind != "object" {
			return fmt.Errorf("%s is an object, not %s", at, s.Kind)
		}
		for _, name := range s.Required {
			if _, there := found[name]; !there {
				return fmt.Errorf("%s has no %s", at, name)
			}
		}
		for name, inner := range found {
			field, known := s.Fields[name]
			if !known {
				return fmt.Errorf("%s has the unknown field %s", at, name)
			}
			if err := field.check(at+"."+name, inner); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if s.Kind != "array" {
			return fmt.Errorf("%s is an array, not %s", at, s.Kind)
		}
		for i, inner := range found {
			if err := s.Items.check(fmt.Sprintf("%s[%d]", at, i), inner); err != nil {
				return err
			}
		}
		return nil
	case string:
		if s.Kind != "string" {
			return fmt.Errorf("%s is a string, not %s", at, s.Kind)
		}
		for _, allowed := range s.Enum {
			if found == allowed {
				return nil
			}
		}
		if s.Enum != nil {
			return fmt.Errorf("%s is %q, not one of %v", at, found, s.Enum)
		}
		return nil
	case json.Number:
		number, err := found.Int64()
		if s.Kind != "integer" || err != nil {
			return fmt.Errorf("%s is a number, not %s", at, s.Kind)
		}
		if s.Most != 0 && (number < s.Least || number > s.Most) {
			return fmt.Errorf("%s is %d, not from %d to %d", at, number, s.Least, s.Most)
		}
		return nil
	case bool:
		if s.Kind != "boolean" {
			return fmt.Errorf("%s is a boolean, not %s", at, s.Kind)
		}
		return nil
	}
	return fmt.Errorf("%s is %v, not %s", at, value, s.Kind)
}
