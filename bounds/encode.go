package bounds

import (
	"bytes"
	"encoding/json"
)

// Encode renders v as compact JSON by the rules of [AppendValue]: what was
// measured with [StringSize] takes just that much.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return AppendValue(nil, b.Bytes())
}
