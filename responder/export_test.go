package responder

// PagesThatWait returns how many pages of events wait for their turn.
func (s *Service) PagesThatWait() int { return int(s.pages.Load()) }
