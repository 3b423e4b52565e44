// Package volume makes pods' volumes: emptyDir, hostPath, configMap, secret,
// downwardAPI, projected (service account tokens included), and claims bound to
// local or hostPath volumes.
//
// It keeps true: content is replaced as a whole, so that a reader sees one
// version; a subPath never leads out of its volume, whatever symbolic links a
// container makes meanwhile; nothing is removed through a mount; after TearDown
// neither mount nor folder is left.
package volume
