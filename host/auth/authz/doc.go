// Package authz tells whether somebody may do something.
//
// Three are asked in order, and the first to allow wins: the group
// system:masters, which may everything; the rules for machines, which confine
// a node to its own objects and to what its pods refer to; and RBAC, by the
// Roles and bindings in the store. A machine's confinement is completed by the
// admission plugin NodeRestriction, which sees what is written.
//
// All answers come from memory. RBAC is compiled from the stored objects into
// an index by subject, again after each change of one of them, so that whoever
// was granted something can use it in the next request.
package authz
