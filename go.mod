module github.com/whyslow/whyslow

go 1.26.0
