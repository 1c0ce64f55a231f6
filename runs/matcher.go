package runs

import "encoding/binary"

// matcher searches a text for any of several words, in one pass. It looks up three
// consecutive bytes in a table, and compares words only after a hit. If all words are longer
// than three bytes, it looks only at every stride-th offset.
type matcher struct {
	words  []string // at least three bytes each; in lower case if fold is set
	fold   bool     // ignore the case of ASCII letters
	stride int      // offsets of a word that are in the table
	mask   uint32   // sets the bit of lower case, if fold is set
	table  [1 << tableBits / 64]uint64
	first  [256]bool // first bytes of words
}

const tableBits = 15

// newMatcher returns a matcher. A word that begins with a space matches only
// after a digit.
func newMatcher(fold bool, words ...string) *matcher {
	m := &matcher{words: words, fold: fold, stride: len(words[0])}
	if fold {
		m.mask = 0x202020
	}
	for _, word := range words {
		m.stride = min(m.stride, len(word)-2)
	}
	for _, word := range words {
		m.first[word[0]] = true
		for i := range m.stride {
			h := m.hash(uint32(word[i]) | uint32(word[i+1])<<8 | uint32(word[i+2])<<16)
			m.table[h/64] |= 1 << (h % 64)
		}
	}
	return m
}

// hash returns the place in the table of three bytes, the lower ones of x.
func (m *matcher) hash(x uint32) uint32 { return (x | m.mask) << 8 * 0x9e3779b1 >> (32 - tableBits) }

// index returns the offset of the first word in b, or -1.
func index[T string | []byte](m *matcher, b T) int { return m.index([]byte(b)) } // no copy: b is only read

func (m *matcher) index(b []byte) int {
	i := 0
	for ; i+4 <= len(b); i += m.stride {
		h := m.hash(binary.LittleEndian.Uint32(b[i:]))
		if m.table[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for at := max(i-m.stride+1, 0); at <= i; at++ {
			if m.wordAt(b, at) {
				return at
			}
		}
	}
	for at := max(i-m.stride+1, 0); at+m.stride+2 <= len(b); at++ { // the shortest word
		if m.wordAt(b, at) {
			return at
		}
	}
	return -1
}

// wordAt reports whether one of the words begins at offset i.
func (m *matcher) wordAt(b []byte, i int) bool {
	first := b[i]
	if m.fold && 'A' <= first && first <= 'Z' {
		first |= 0x20
	}
	if !m.first[first] || first == ' ' && (i == 0 || !isDigit(b[i-1])) {
		return false
	}
next:
	for _, word := range m.words {
		if word[0] != first || len(b)-i < len(word) {
			continue
		}
		for k := 1; k < len(word); k++ {
			c := b[i+k]
			if m.fold && 'A' <= c && c <= 'Z' {
				c |= 0x20
			}
			if c != word[k] {
				continue next
			}
		}
		return true
	}
	return false
}
