\set v0 debug(:client_id)

\set n random(1, 4)
\if :n = 1
  \set x debug(1)
  \if random(1, 2) = 1
    \set x debug(11)
  \elif random(1, 2) = 1
    \set x debug(12)
  \else
    \set x debug(13)
  \endif
\elif :n = 2
  \set x debug(2)
\elif :n = 3
\else
  \set x debug(4)
\endif
\if null
\else
  \set x debug(5)
\endif
\set x debug(random(1, 1000))
