// Package record keeps what controllers were asked, and what they answered, as the
// very bytes: each question can be put again, to the module that answered it or to
// another. It lies in memory, compressed, and takes a bounded number of bytes: the
// oldest go when newer ones need the room, and a restart forgets all.
package record
