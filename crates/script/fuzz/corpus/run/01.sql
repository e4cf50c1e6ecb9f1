  -- note ; here

 select 1 -- in ; side
 , 2 ;-- behind
-- end
