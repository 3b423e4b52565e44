// Package oracletest walks clusters with the answers of kube-scheduler through
// a profile, as the engine runs it: verdict codes by node and plugin, raw and
// normalised scores, totals, the feasible set and the best set. Which policies
// answer, natively or as guests, is the caller's.
package oracletest
