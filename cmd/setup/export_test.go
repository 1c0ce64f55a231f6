package setup

// Names for tests.
var Roles = roles

type Node = node
