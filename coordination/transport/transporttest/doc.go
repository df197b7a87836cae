// Package transporttest has the tests that every transport passes.
//
//	func TestMyTransportConforms(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) transporttest.Net { return ... })
//	}
package transporttest
