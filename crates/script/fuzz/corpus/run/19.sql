select 'é:é', 1 as ü; select 1 -- :missing ;
, 2;