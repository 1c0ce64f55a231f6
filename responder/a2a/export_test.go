package a2a

// ProfileURI is for tests.
const ProfileURI = profileURI
