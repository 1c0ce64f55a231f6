package rest

// API is for tests.
type API = surface
