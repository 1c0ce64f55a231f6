package bounds

import (
	"bytes"
	"encoding/json"
)

// Encode returns v as compact JSON in the format of [AppendValue]. A string in
// v takes exactly the number of bytes that [StringSize] returns.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return AppendValue(nil, buf.Bytes())
}
