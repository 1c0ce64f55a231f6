// Its own module, so that the module of linesman does not depend on a converter of manual pages.
module github.com/linesman/linesman/deploy/man

go 1.26

require github.com/cpuguy83/go-md2man/v2 v2.0.7

require github.com/russross/blackfriday/v2 v2.1.0 // indirect
