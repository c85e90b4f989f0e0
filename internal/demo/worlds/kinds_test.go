package worlds

// kinds are the worlds by name. Each draws its magnitudes and places from the
// world's seed, more widely than the demo does.
func kinds() map[string]func(*world) {
	return map[string]func(*world){
		"slow-link": slowLink, "far": far, "ocean": ocean, "near": near, "loopback": loopbackLike,
		"loss-big": lossBig, "loss-small": lossSmall, "loss-oneway": lossOneWay, "jitter": jitter, "thin-big": thinBig, "thin-small": thinSmall, "policer": policer,
		"mtu-body": mtuBody, "mtu-cert": mtuCert, "mtu-v6": mtuV6,
		"dead-one": deadOne, "dead-two": deadTwo, "dead-closed": deadClosed, "slow-resolver": slowResolver, "slow-authority": slowAuthority,
		"authority-dead": authorityDead, "servfail": servfail, "aaaa-dropped": aaaaDropped, "search-list": searchList, "truncation": truncation,
		"lookup-before": lookupBefore, "lookup-log": lookupLog, "apache-log": apacheLog, "apache-require": apacheRequire, "apache-dead": apacheDead, "apache-ok": apacheOK, "nginx-ok": nginxOK,
		"think": think, "think-jitter": thinkJitter, "think-all": thinkAll, "think-far": thinkFar, "think-plus-noise": thinkNoise,
		"drip": drip, "trickle": trickle, "rate": rate, "pause": pauseBody, "tls12": slowTLS12, "tls13": slowTLS13, "accept": accept, "accept-serial": acceptSerial,
		"refused": refused, "redirects": redirectChain, "redirect-one": redirectOne, "redirect-slow": redirectSlow, "status": status, "status-slow": statusSlow, "h2-think": h2Think, "v6": v6Near, "v6-far": v6Far,
		"big-page": bigPage, "cold-cache": coldCache, "no-keepalive": noKeepAlive, "no-keepalive-think": noKeepThink, "odd-routers": oddRouters, "icmp-dead": icmpDead, "slow-control-dst": slowControl,
		"accept-ptr": acceptPTR, "lookup-close": lookupClose, "accept-close": acceptClose, "redirect-elsewhere": redirectElsewhere, "v6-broken": v6Broken,
		"fw-ok": fwOK, "fw-slow-link": fwSlowLink, "fw-loss": fwLoss, "fw-mtu": fwMTU, "intermittent": intermittent, "think-80": think80, "jitter-little": jitterLittle,
		"think-all-jitter": thinkAllJitter, "far-resolver": farResolver, "far-authority": farAuthority, "slow-link-think": slowLinkThink, "slow-link-thin": slowLinkThin,
	}
}
