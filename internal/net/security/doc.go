// Package security proves members to each other, and hides what they say: TLS 1.3 with
// both ends verified, by a shared secret or by certificates.
//
// From a secret and the cluster's name every member derives (HKDF-SHA256) the Ed25519 key
// of the cluster's authority, and issues itself a certificate for its own id. The
// certificate does not show the id: it has a name that only who has the secret can tell
// to belong to an id, since a server shows its certificate to whoever asks.
package security
