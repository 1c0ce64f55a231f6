package mcp

import (
	"encoding/json"
	"math/big"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// maxID bounds the id that the answer to a refused request repeats, in bytes of
// JSON.
const maxID = 1024

// idScanner finds the id of a request in a line or a body, even if it is
// refused: too long, too deep, or not a message. It reads the line in pieces
// and keeps at most maxID bytes of the current top-level member. Below the top
// level it tracks only strings and brackets, so it finds the id of a request
// with an invalid argument, too. After a mismatched bracket no level is
// certain, and no id is accepted.
type idScanner struct {
	open    []byte // the brackets that close the levels, at most MaxMessage
	quoted  bool   // in a string
	escaped bool   // after a backslash
	ended   bool   // after the object
	broken  bool   // the line is not exactly one object, or its brackets do not match

	token  []byte // the current top-level key or value
	gap    bool   // blanks followed it
	over   bool   // the token is not kept: it is nested, or longer than maxID
	key    string // of the value
	keyed  bool   // there is a key
	id     []byte // nil: there is no id that is a string or a number
	member bool   // there is an id of any kind
	number bool   // it is a number
	null   bool   // it is null
	method bool
	result bool // or an error
}

// Write reads a piece of the line.
func (s *idScanner) Write(p []byte) (int, error) {
	for _, c := range p {
		if s.broken {
			break
		}
		s.next(c)
	}
	return len(p), nil
}

// answer reports whether the line is to be answered, and with which id: nil if
// none can be read. Notifications and responses are not answered. The id of
// another line without a method does not belong to a call. Errors after the id
// and the method do not matter: the client waits for this id.
func (s *idScanner) answer() (id json.RawMessage, wanted bool) {
	if last := len(s.token) - 1; len(s.open) == 1 && !s.quoted && last > 0 && s.token[last] == '"' {
		s.value() // only the closing brace is missing; a number might be incomplete
	}
	switch {
	case s.method && s.id != nil:
		return s.id, true
	case s.broken || !s.ended:
		return nil, true
	case !s.method:
		return nil, !(s.result && s.member)
	default:
		return nil, s.member
	}
}

// check returns the error for a request id or progress token that the library
// would change: it reads numbers as float64, and ids as int64. It also refuses
// the id null, which the library treats as a notification. It returns nil for
// all other messages.
func (s *idScanner) check(message []byte) *jsonrpc.Error {
	name, root := "", gjson.ParseBytes(message)
	switch {
	case s.number && (s.id == nil || !exact(string(s.id))), s.null && s.method:
		name = "id"
	case lossyAt(root, "params", "requestId"):
		name = "requestId"
	case lossyAt(root, "params", "_meta", "progressToken"):
		name = "progressToken"
	default:
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
		Message: name + ": must be a string, or an integer from -2^53 to 2^53"}
}

// lossyAt reports whether any value at a path is such a number. Of duplicate
// members the library uses the last one, or merges them.
func lossyAt(v gjson.Result, path ...string) (lossy bool) {
	if len(path) == 0 {
		return v.Type == gjson.Number && !exact(v.Raw)
	}
	if !v.IsObject() {
		return false
	}
	v.ForEach(func(name, value gjson.Result) bool {
		lossy = name.Str == path[0] && lossyAt(value, path[1:]...)
		return !lossy
	})
	return lossy
}

// exact reports whether a number is an integer in the range where float64
// represents all integers.
func exact(number string) bool {
	if len(number) > maxID {
		return false
	}
	f, _, err := big.ParseFloat(number, 10, 8*maxID, big.ToZero) // precision for all of its digits
	if err != nil {
		return false
	}
	n, accuracy := f.Int64()
	return accuracy == big.Exact && -1<<53 <= n && n <= 1<<53
}

func (s *idScanner) next(c byte) {
	if s.quoted {
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted = false
		}
		s.keep(c)
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		s.gap = len(s.token) > 0
		return
	case '{', '[':
		if s.broken = s.ended || len(s.open) == 0 && c == '[' || len(s.open) == maxMessage; s.broken {
			return
		}
		s.open = append(s.open, c+2) // in ASCII
		s.over = len(s.open) > 1     // a nested value is neither a key nor an id
		return
	case '}', ']':
		last := len(s.open) - 1
		if s.broken = last < 0 || s.open[last] != c; s.broken {
			return
		}
		if s.open = s.open[:last]; last == 0 {
			s.ended = true
			s.value()
		}
		return
	case ':':
		if len(s.open) == 1 {
			s.name()
			return
		}
	case ',':
		if len(s.open) == 1 {
			s.value()
			return
		}
	case '"':
		s.quoted = true
	}
	s.broken = len(s.open) == 0
	s.keep(c)
}

// keep appends a byte to the top-level token.
func (s *idScanner) keep(c byte) {
	if len(s.open) != 1 || s.over {
		return
	}
	if s.over = s.gap || len(s.token) == maxID; !s.over {
		s.token = append(s.token, c)
	}
}

// name uses the token as the key of the next value.
func (s *idScanner) name() {
	s.key = ""
	if !s.over {
		s.broken = s.keyed || json.Unmarshal(s.token, &s.key) != nil
	}
	s.keyed = true
	s.reset()
}

// value uses the token as the value of the key. Of duplicate members the last
// counts, as in accepted messages.
func (s *idScanner) value() {
	switch {
	case s.keyed && s.key == "method":
		s.method = true
	case s.keyed && (s.key == "result" || s.key == "error"):
		s.result = true
	case s.keyed && s.key == "id":
		s.member, s.id, s.null = true, nil, string(s.token) == "null"
		s.number = len(s.token) > 0 && (s.token[0] == '-' || s.token[0]-'0' <= 9)
		if !s.over && json.Valid(s.token) && utf8.Valid(s.token) && (s.number || s.token[0] == '"') {
			s.id = append(s.id, s.token...)
		}
	}
	s.keyed = false
	s.reset()
}

func (s *idScanner) reset() { s.token, s.gap, s.over = s.token[:0], false, false }
