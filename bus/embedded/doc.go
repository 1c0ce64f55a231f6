// Package embedded is the NATS server inside the process of `linesman up`, and who
// may do what on it.
//
//	worker, responder, operator ─▶ LINESMAN          RAW, RUNS, WORK, buckets
//	normalizer ─▶ LINESMAN, LINESMAN_PUBLIC          EVENTS
//	subscriber, responder ─▶ LINESMAN_READERS ──────▶ EVENTS, by requests that are let in
//
// It owns the life of the server ([Server]), its passwords ([Credentials]), the
// table of permissions ([Accounts]) in the forms that any NATS server reads
// ([AccountsConfig], [NKeyConfig], [SignedConfig], [CertificateConfig]), the bounds of
// readers that flood it, and its disk ([DiskGuard]).
//
// It makes no stream and reads none. Nobody without credentials gets in; writers
// are refused while the disk is nearly full; readers lose the JetStream API for a
// minute when they flood it. linesman's own users are never limited.
package embedded
