package access

// MaxConnections is 65,536: this system has no limit of open files.
func MaxConnections() int { return 1 << 16 }
