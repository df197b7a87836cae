// Package upgrade has what a caller of stage.Stage.Upgrade needs: the options of an upgrade, the [Rollout] that an upgrade
// returns, and the errors with which it ends.
//
//	up, err := greet.Upgrade(ctx, factory, upgrade.Canary(0.1), upgrade.PromoteAfter(1000, time.Minute))
//	…
//	err = up.Wait(ctx)
//
// Without [Canary] an upgrade sends all commands to the new version at once. With it a part of the commands goes to the new
// version, until the trial ends: the version is promoted, or everything is as it was before.
package upgrade
