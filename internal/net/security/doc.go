// Package security authenticates members to each other and encrypts their messages: TLS 1.3 with
// both ends verified, by a shared secret or by certificates.
//
// From a secret and the cluster's name every member derives (HKDF-SHA256) the Ed25519 key of the
// cluster's authority, and issues itself a certificate for its own id. The certificate does not
// show the id, because a server sends its certificate to every client. It has a name that only a
// holder of the secret can match to an id.
package security
