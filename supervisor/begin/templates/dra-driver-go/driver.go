// A DRA driver for gpu.example.com: its devices, and what a container gets of them. kubelet.go has the rest, and calls
// devices, prepare and unprepare.
package main

import "strings"

const driverName = "gpu.example.com"

var names = []string{"device-0", "device-1"}

// devices returns the node's devices as in the spec of a ResourceSlice, with the same names for the same hardware.
// Ask your hardware here. A change is published within a minute.
func devices() []object {
	var found []object
	for index, name := range names {
		found = append(found, object{"name": name, "attributes": object{"index": object{"int": index}}})
	}
	return found
}

// prepare makes a device ready for the pods of a claim, and returns its containerEdits, as in a CDI file. It may be
// called again: return the same. An error is shown in the events of the pod, and the call is repeated. Real devices
// need deviceNodes and mounts; here it is a variable.
func prepare(claim *resourceClaim, device string) (object, error) {
	variable := strings.ToUpper(strings.ReplaceAll(device, "-", "_")) + "=" + claim.Metadata.UID
	return object{"env": []string{variable}}, nil
}

// unprepare undoes what prepare did for the claim with this uid, also if that is nothing or was undone before.
func unprepare(uid string) error { return nil }
