package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/linesman/linesman/normalizer"
)

// eventKind is a kind as subjects spell it.
type eventKind string

var (
	allKinds   = normalizer.Tokens()
	eventKinds = reflect.TypeFor[[]eventKind]()
)

// UnmarshalText accepts what there is and nothing else.
func (k *eventKind) UnmarshalText(text []byte) error {
	if !slices.Contains(allKinds, string(text)) {
		return fmt.Errorf("must be one of %s, got %q", strings.Join(allKinds, ", "), text)
	}
	*k = eventKind(text)
	return nil
}
