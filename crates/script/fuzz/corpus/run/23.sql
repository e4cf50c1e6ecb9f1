\set a debug(:client_id)
\set b \
 debug( \
 1 + \
  2)
\SET c debug(:b)
