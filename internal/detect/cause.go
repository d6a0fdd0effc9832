package detect

func (d *stalls) judge(w *rankWatch, o *ongoing) { o.stall.Cause = CauseUnknown }
