\set d 0.1 + 0.2
\set i -5
\set b true
\set n null
\set f double(7)
select ':d', ':i', :b, :n, ':f';
select :d::text, :i::int, :b::text, :n::text, :f::text;