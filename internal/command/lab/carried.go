//go:build lab

package lab

import "embed"

//go:embed built/lab.wasm.gz built/lab-quorum.wasm.gz built/lab-superpeers.wasm.gz built/wasm_exec.js
var built embed.FS

// carried is the simulator that was built by go generate before this program.
func carried() map[string][]byte {
	files := map[string][]byte{}
	for _, name := range []string{simulator, simulatorOfQuorum, simulatorOfSuperpeers, loader} {
		files[name], _ = built.ReadFile("built/" + name) // it is compiled in
	}
	return files
}
