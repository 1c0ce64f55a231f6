package runs

// sieve finds whether a text has one of some words, in one pass however many
// there are. It looks up every three bytes in a table, and compares words only
// where that says so.
type sieve struct {
	words []string // each of three bytes or more, in lower case where fold is set
	fold  bool     // letters match in either case
	table [1 << 15 / 64]uint64
}

// newSieve makes a sieve. A word that begins with a space is only found
// behind a digit.
func newSieve(fold bool, words ...string) *sieve {
	s := &sieve{words: words, fold: fold}
	for _, word := range words {
		h := uint(0)
		for i := range 3 {
			h = h<<5 | uint(word[i]&31) // the same for both cases of a letter
		}
		s.table[h/64] |= 1 << (h % 64)
	}
	return s
}

// index is where the first of the words stands in b, or -1.
func index[T string | []byte](s *sieve, b T) int {
	h := uint(0)
	for i := range len(b) {
		h = (h<<5 | uint(b[i]&31)) & (1<<15 - 1)
		if s.table[h/64]&(1<<(h%64)) != 0 && i >= 2 && begins(s, b, i-2) {
			return i - 2
		}
	}
	return -1
}

// begins reports whether one of the words stands at i.
func begins[T string | []byte](s *sieve, b T, i int) bool {
next:
	for _, word := range s.words {
		if len(b)-i < len(word) || word[0] == ' ' && (i == 0 || !digit(b[i-1])) {
			continue
		}
		for k := range len(word) {
			c := b[i+k]
			if s.fold && 'A' <= c && c <= 'Z' {
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
