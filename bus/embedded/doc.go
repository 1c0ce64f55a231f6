// Package embedded runs the NATS server inside the process of `linesman up`, and
// defines the permissions of its users.
//
//	worker, responder, operator ─▶ LINESMAN          RAW, RUNS, WORK, buckets
//	normalizer ─▶ LINESMAN, LINESMAN_PUBLIC          EVENTS
//	subscriber, responder ─▶ LINESMAN_READERS ──────▶ EVENTS, by imported requests
//
// It owns the server's lifecycle ([Server]), its passwords ([credentials]), the table
// of permissions ([Accounts]) in the formats of any NATS server ([accountsFor],
// [NKeyConfig], [SignedConfig], [CertificateConfig]), the limits of readers that flood
// it, and its disk space ([DiskGuard]).
//
// It neither creates nor reads streams. It refuses clients without credentials, and
// writes while the disk is nearly full. Readers that flood it lose the JetStream API
// for a minute; linesman's own users are never limited.
package embedded
