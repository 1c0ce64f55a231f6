package bounds

// AppendValue is appendValue, for the tests of its format.
var AppendValue = appendValue
