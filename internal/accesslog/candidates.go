package accesslog

// candidate is a format that Detect tries.
type candidate struct {
	name, text string
	nginx      bool
	// rest: more may follow. prefix: something stands before, as a syslog
	// daemon writes. received: the time is of the receipt, unlike nginx's.
	// decimal: the line ends in a number with a fraction.
	rest, prefix, received, decimal bool
	note                            string
}

const (
	noteLookAlike = "nginx's combined format looks the same; its times are of a request's end, Apache's of its beginning"
	noteOneNumber = "the number at the end may be a duration in microseconds, milliseconds or seconds: name the format to have it used"
	noteRest      = "what follows the known fields is left aside: give the format to have it used"
	notePrefix    = "what stands before the client's address is left aside"
	noteVHost     = "the bytes may be with headers (%O, as Debian writes) or without (%b)"
)

// candidates in the order of preference among those that fit equally: the
// more a format says the earlier.
var candidates = []candidate{
	{name: "combined", text: "%h" + commonTail + "%b" + combinedTail, note: noteLookAlike},
	{name: "vhost_combined", text: "%v:%p %h" + commonTail + "%O" + combinedTail, note: noteVHost},
	{name: "vhost_combined_upstream", text: "%v %h" + commonTail + "%b" + combinedTail},
	{name: "nginx_main", text: nginxNamed[1].text, nginx: true},
	{name: "combinedio", text: "%h" + commonTail + "%b" + combinedTail + " %I %O"},
	{name: "combined with a list of proxies' clients first", text: "%{X-Forwarded-For}i" + commonTail + "%b" + combinedTail},
	{name: "combined and request time", text: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time`, nginx: true, decimal: true},
	{name: "combined and a number", text: "%h" + commonTail + "%b" + combinedTail + " %I", note: noteOneNumber},
	{name: "vhost_combined and a number", text: "%v:%p %h" + commonTail + "%O" + combinedTail + " %I", note: noteOneNumber},
	{name: "common", text: "%h" + commonTail + "%b", note: noteLookAlike},
	{name: "vhost_common", text: "%v %h" + commonTail + "%b"},
	{name: "common and a number", text: "%h" + commonTail + "%b %I", note: noteOneNumber},
	{name: "ingress-nginx", text: nginxNamed[0].text + " $request_length $request_time [$proxy_upstream_name] ", nginx: true, rest: true},
	{name: "nginx_main and more", text: nginxNamed[1].text + " ", nginx: true, rest: true, note: noteRest},
	{name: "combined and more", text: "%h" + commonTail + "%b" + combinedTail + " ", rest: true, note: noteRest},
	{name: "vhost_combined and more", text: "%v:%p %h" + commonTail + "%O" + combinedTail + " ", rest: true, note: noteRest},
	{name: "common and more", text: "%h" + commonTail + "%b ", rest: true, note: noteRest},
	{name: "common and more in quotes", text: "%h %l %u %t \"%r\" ", rest: true, note: noteRest},
	{name: "AWS application load balancer", text: `$type $time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $target_status $received $bytes_sent "$request" "$http_user_agent" `, nginx: true, rest: true},
	{name: "AWS classic load balancer", text: `$time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $target_status $received $bytes_sent "$request" "$http_user_agent" `, nginx: true, rest: true},
	{name: "Envoy", text: `[$time_iso8601] "$request" $status $flags $received $bytes_sent $ms $upstream_ms "$http_x_forwarded_for" "$http_user_agent" "$id" "$host" `, nginx: true, rest: true, received: true},
	{name: "HAProxy", text: "%a [%{%d/%b/%Y:%H:%M:%S}t.%{msec_frac}t] " + haproxyTail, rest: true},
	{name: "HAProxy behind a prefix", text: "%{prefix}n %a [%{%d/%b/%Y:%H:%M:%S}t.%{msec_frac}t] " + haproxyTail, rest: true, prefix: true, note: notePrefix},
	{name: "combined behind a prefix", text: "%{prefix}n %h" + commonTail + "%b" + combinedTail, prefix: true, note: notePrefix},
	{name: "common behind a prefix", text: "%{prefix}n %h" + commonTail + "%b", prefix: true, note: notePrefix},
	{name: "combined and more behind a prefix", text: "%{prefix}n %h" + commonTail + "%b" + combinedTail + " ", rest: true, prefix: true, note: notePrefix + ", and so is " + noteRest},
}

// haproxyTail is a line of HAProxy's option httplog behind its time: frontend,
// backend/server, timers, status, bytes.
const haproxyTail = "%{frontend}n %{backend}n %{timers}n %>s %B "

// compile makes the candidate's format.
func (c candidate) compile(opts CompileOptions) (*Format, error) {
	opts.Name = c.name
	compile := CompileApache
	if c.nginx {
		compile = CompileNginx
	}
	f, err := compile(c.text, opts)
	if err != nil {
		return nil, err
	}
	f.rest = c.rest
	f.shape = f.findShape()
	for i := range f.steps {
		f.steps[i].strict = c.prefix
	}
	if c.received {
		f.moment = Received
	}
	return f, nil
}
