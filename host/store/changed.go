package store

// Changed is the revision of the newest change to any object of the resource
// that readers see; 0 if there was none since Open found the store empty. Who
// derives something from a resource's objects keeps it by this number.
func (s *Store) Changed(resource string) int64 {
	r := s.lookup(resource)
	if r == nil {
		return 0
	}
	return r.rev.Load()
}
