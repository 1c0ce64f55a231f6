package rest

// Names for tests.
type (
	API     = surface
	Missing = missing
)
