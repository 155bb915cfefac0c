package transport

// canWriteNow is false here: each frame goes by a goroutine of its own.
const canWriteNow = false

func (w *nowWriter) try(uintptr) bool { return true }

func (r *nowReader) try(uintptr) bool { return true }
