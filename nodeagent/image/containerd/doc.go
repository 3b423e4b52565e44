// Package containerd keeps images in containerd's content and image stores.
//
// containerd knows an image by each of its names. Besides the names that were
// asked for, each image has a record under its ID, the digest of its
// configuration: by that the runtime finds it, and it stays when a tag moves
// on, as long as nobody removes it.
package containerd
