package adcp

// Names for tests.
type (
	Issue    = issue
	Recovery = recovery
)
