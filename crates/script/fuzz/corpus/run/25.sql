\setrandom x 1 :a gaussian 2.5
\if :a
\sleep :b ms
\elif :c
\else
\endif
\startpipeline
select 1;
\endpipeline
